"""HTTP/2 in front of the application: frames by `h2`, requests and answers as aiohttp knows them."""
