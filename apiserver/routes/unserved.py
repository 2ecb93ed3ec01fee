"""What no route serves: 404, or 405 with the methods that the path has.

aiohttp's own answer to these is a route made for the request, in a circle with itself: it would stay
until the garbage collector comes, which is rarely, and anybody may ask for what there is not.
"""

from aiohttp import web

from apiserver.wire import status


async def refuse(request: web.Request) -> web.StreamResponse:
    """Refuse; the route to this is the last one, and takes any method and path."""
    own = request.match_info.route.resource
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        if resource is not own:
            _, methods = await resource.resolve(request)
            allowed |= methods
    raise status.method_not_allowed(sorted(allowed)) if allowed else status.no_such_path()
