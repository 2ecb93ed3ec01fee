"""A real control plane on this machine: what `make demo` and the tests run on.

    async with control_plane.control_plane() as cp:
        await product.install_chart(cp)
        ...

binaries → builds etcd, Kubernetes and helm once; pki, ports, processes → what a plane is made of;
components → the four command lines; control_plane → up, ready, down; product → the chart and
the process under its ServiceAccount; simulator → nodes with GPUs; demo, story → `make demo`.
Nothing in the product imports this package.
"""
