"""Client: get, list, create, update, patch, apply, delete, watch; no policy, no cache, no retry.

The one exception to 'no retry' is a 401, after which the credentials are read again. Objects are
JSON dicts as the server sends them. Every call has a deadline in seconds (`deadline=`, 10 unless
the client was made with another) and raises ApiError.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Self, Unpack

from gpu import ports
from gpu.cluster import credentials, errors, http, options, urls, wire
from gpu.objects.kinds import Kind

Json = Mapping[str, Any]
JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML
PAGE: Final = 500
"""Objects of one page of `list_all`."""
WATCH_SECONDS: Final = 300
IDLE: Final = 100.0
"""Seconds of silence after which a watch counts as cut; bookmarks come every 60 to 75 s."""

AUDIT_ID: Final = "Audit-ID"
_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
}


class Client:
    """The API server's verbs over one session; use as `async with`, or call `close()`."""

    def __init__(
        self,
        access: credentials.Access,
        *,
        connections: int = http.CONNECTIONS,
        deadline: float = http.DEADLINE,
        observe: Callable[[http.Observation], None] | None = None,
        share: http.Session | None = None,
        headers: http.Headers = (),
    ) -> None:
        """Make a client with a session of its own, or over a shared one with further headers."""
        self._session = share or http.Session(access, connections=connections, observe=observe)
        self._deadline = deadline
        self._headers = headers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the session, also under every client made by `acting_as`."""
        await self._session.close()

    @property
    def access(self) -> credentials.Access:
        """How it logs in."""
        return self._session.access

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> "Client":
        """Return a client of the same session that impersonates a user; RBAC then is the user's."""
        headers = (
            ("Impersonate-User", user),
            *(("Impersonate-Group", group) for group in groups),
        )
        return Client(
            self._session.access, deadline=self._deadline, share=self._session, headers=headers
        )

    def outcome(self, error: Exception) -> ports.Outcome | None:
        """Say what a failed call means; None when the exception is not of this client."""
        return error.outcome if isinstance(error, errors.ApiError) else None

    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, **how: Unpack[options.GetOptions]
    ) -> dict[str, Any]:
        """Read one object, as new as the server knows."""
        path = urls.path(kind, namespace, name, how.get("subresource"))
        request = self._request("get", kind, path, deadline=how.get("deadline"))
        return wire.decode_object((await self._session.expect(request)).body)

    async def list(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[options.ListOptions]
    ) -> wire.ListPage:
        """Read one page; without `resource_version` it is as new as the server knows."""
        path = urls.path(kind, namespace) + urls.query(
            {
                "labelSelector": which.get("label_selector"),
                "fieldSelector": which.get("field_selector"),
                "limit": which.get("limit"),
                "continue": which.get("continue_") or None,
                "resourceVersion": which.get("resource_version"),
                "resourceVersionMatch": which.get("resource_version_match"),
            }
        )
        request = self._request("list", kind, path, deadline=which.get("deadline"))
        return await wire.decode_page(kind, (await self._session.expect(request)).body)

    async def list_all(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[options.SelectOptions]
    ) -> wire.ListPage:
        """Read all pages of one consistent list; `deadline` is each page's.

        Raises Gone when reading took longer than the server keeps that version (minutes).
        """
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            page = await self.list(kind, namespace, limit=PAGE, continue_=token, **which)
            items += page.items
            token = page.continue_
            if not token:
                return wire.ListPage(tuple(items), page.resource_version)

    async def create(
        self, kind: Kind, body: Json, **how: Unpack[options.WriteOptions]
    ) -> dict[str, Any]:
        """Create in the body's namespace. Reviews (TokenReview, SubjectAccessReview) are creates."""
        path = urls.path(kind, body.get("metadata", {}).get("namespace"))
        return await self._write("create", kind, path, body, how)

    async def create_subresource(
        self, kind: Kind, name: str, subresource: str, body: Json, namespace: str | None = None
    ) -> dict[str, Any]:
        """Post to a subresource of one object: an eviction, a binding, a token request.

        The body names its own apiVersion and kind, which are not the object's.
        """
        path = urls.path(kind, namespace, name, subresource)
        request = self._request("create", kind, path, body=body)
        return wire.decode_object((await self._session.expect(request)).body)

    async def update(
        self, kind: Kind, body: Json, **how: Unpack[options.UpdateOptions]
    ) -> dict[str, Any]:
        """Replace the object that the body names; its resourceVersion decides on a conflict."""
        meta = body["metadata"]
        path = urls.path(kind, meta.get("namespace"), meta["name"], how.get("subresource"))
        return await self._write("update", kind, path, body, how)

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Json | Sequence[Json],
        namespace: str | None = None,
        **how: Unpack[options.PatchOptions],
    ) -> dict[str, Any]:
        """Merge-patch, or another kind of patch by `content_type` (a JSON patch is a list).

        With `metadata.resourceVersion` in the patch, raises Conflict when it is not the newest.
        """
        path = urls.path(kind, namespace, name, how.get("subresource"))
        return await self._write("patch", kind, path, patch, how)

    async def apply(
        self,
        kind: Kind,
        name: str,
        body: Json,
        namespace: str | None = None,
        *,
        field_manager: str,
        **how: Unpack[options.ApplyOptions],
    ) -> dict[str, Any]:
        """Server-side apply with force: what the body says is ours, whoever had it before."""
        place = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {**body, "metadata": {**body.get("metadata", {}), **place}}  # not read from the URL
        path = urls.path(kind, namespace, name, how.get("subresource"))
        return await self._write("apply", kind, path, body, {**how, "field_manager": field_manager})

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        **how: Unpack[options.DeleteOptions],
    ) -> None:
        """Delete; with `uid` or `resource_version`, only that very object (Conflict otherwise)."""
        preconditions = {"uid": how.get("uid"), "resourceVersion": how.get("resource_version")}
        settings = {
            "preconditions": {key: value for key, value in preconditions.items() if value} or None,
            "gracePeriodSeconds": how.get("grace_period"),
            "propagationPolicy": how.get("propagation"),
            "dryRun": ["All"] if how.get("dry_run") else None,
        }
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            **{key: value for key, value in settings.items() if value is not None},
        }
        path = urls.path(kind, namespace, name)
        await self._session.expect(
            self._request("delete", kind, path, body=body, deadline=how.get("deadline"))
        )

    async def watch(
        self, kind: Kind, namespace: str | None = None, **which: Unpack[options.WatchOptions]
    ) -> AsyncGenerator[wire.WatchEvent, None]:
        """Yield events, bookmarks among them, until the server ends the watch, which is no error.

        Raises Gone when the version is too old (at once or in mid-watch), Unreachable when the line
        is cut, silent for `idle` seconds, or says something that is no event. Half a line at the
        end is dropped: the event comes again, since its version was not seen. Wrap the iterator in
        `contextlib.aclosing` where it may be left early.
        """
        seconds = which.get("timeout_seconds", WATCH_SECONDS)
        path = urls.path(kind, namespace) + urls.query(
            {
                "watch": True,
                "allowWatchBookmarks": True,
                "labelSelector": which.get("label_selector"),
                "fieldSelector": which.get("field_selector"),
                "resourceVersion": which.get("resource_version"),
                "timeoutSeconds": seconds,
            }
        )
        request = self._request(
            "watch", kind, path, deadline=which.get("deadline"), idle=which.get("idle", IDLE)
        )
        opened = which.get("opened")
        async with self._session.stream(request) as chunks, aclosing(wire.events(chunks)) as found:
            if opened is not None:
                opened()
            async for event in found:
                yield event

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> http.Answer:
        """Send to any path (escaped, with its query) and return an answer of any status."""
        return await self._session.ask(
            http.Request(
                verb=method.lower(),
                method=method,
                path=path,
                body=body,
                headers=(*self._headers, *(headers or {}).items()),
                deadline=self._deadline if deadline is None else deadline,
            )
        )

    async def _write(
        self, verb: str, kind: Kind, path: str, body: Json | Sequence[Json], how: Json
    ) -> dict[str, Any]:
        query = urls.query(
            {
                "fieldManager": how.get("field_manager"),
                "dryRun": "All" if how.get("dry_run") else None,
                "force": True if verb == "apply" else None,
            }
        )
        if verb != "patch" and isinstance(body, Mapping):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        content_type = {
            "patch": how.get("content_type", ports.MERGE_PATCH),
            "apply": APPLY_PATCH,
        }.get(verb, JSON)
        request = self._request(
            verb,
            kind,
            path + query,
            body=body,
            content_type=content_type,
            deadline=how.get("deadline"),
        )
        if audit_id := how.get("audit_id"):
            request = replace(request, headers=(*request.headers, (AUDIT_ID, audit_id)))
        return wire.decode_object((await self._session.expect(request)).body)

    def _request(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        body: object = None,
        content_type: str = JSON,
        deadline: float | None = None,
        idle: float | None = None,
    ) -> http.Request:
        sent = () if body is None else (("Content-Type", content_type),)
        return http.Request(
            verb=verb,
            method=_METHODS[verb],
            path=path,
            resource=kind.resource,
            body=None if body is None else wire.encode(body),
            headers=(*self._headers, *sent),
            deadline=self._deadline if deadline is None else deadline,
            idle=idle,
        )
