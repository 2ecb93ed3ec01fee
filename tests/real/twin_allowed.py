"""Where our answers may differ from a CRD's, as `row | aspect` with `*`, each with its reason."""

from typing import Final

READ_ONLY: Final = "what is computed is not written: 405 whatever the body, as for a built-in kind without the verb"
TEXT: Final = "kube-apiserver answers in text for CRDs; a Status is what the conventions ask for, and built-in kinds give"
SUBRESOURCE: Final = "a CRD looks for the object first; we have no subresource at all"
COLUMNS: Final = "the columns of a CRD are fields; ours count what is in them"
TYPE: Final = "400 as built-in kinds; a CRD judges it as a field"
ONE: Final = "406: a 500 would be our fault"
VERSIONS: Final = "etcd keeps all since its compaction; we keep a hundred states, and say 410"
VARY: Final = "ours differs by Accept, and caches must know it"
ASKED: Final = "a question is not stored: it has an answer, and neither uid nor time"
NO_PROTOBUF: Final = (
    "a CRD has no protobuf either, and writes even that refusal in it; JSON can be read by all"
)

ALLOWED: Final[dict[str, str]] = {
    "* | cache-control": "kube-apiserver puts its own beside that of every aggregated server",
    # Paths and verbs.
    "path: list of every namespace | shape": "every tenant has offers; the twins are of one alone",
    "path: get without a namespace | kind": TEXT,
    "direct: path: unknown version | kind": TEXT,
    "plans: in a namespace* | kind": TEXT,
    "what-if in a namespace | kind": TEXT,
    "path: unknown resource* | kind": TEXT,
    "delete of nothing known | kind": TEXT,
    "path: unknown subresource* | details": SUBRESOURCE,
    "plans: get a status | details": SUBRESOURCE,
    "path: discovery of the version | shape": "the verbs differ, that is the point",
    "path: discovery of the version | vary": VARY,
    "direct: path: discovery of the group | vary": VARY,
    "options | allow": "405 names the methods there are, as HTTP asks for",
    "options | details": "upstream's text for a verb it has no name for",
    "trace | allow": "405 names the methods there are, as HTTP asks for",
    "trace | details": "upstream's text for a verb it has no name for",
    "direct: a verb of nobody | status": "the parser of HTTP/1.1 refuses methods that are none, before there is a request",
    "a verb of nobody | allow": "405 names the methods there are, as HTTP asks for",
    "a verb of nobody | details": "upstream's text for a verb it has no name for",
    "create | status": READ_ONLY,
    "update* | status": READ_ONLY,
    "patch* | status": READ_ONLY,
    "delete | status": READ_ONLY,
    "delete all | status": READ_ONLY,
    "plans: delete | status": READ_ONLY,
    "plans: create | status": READ_ONLY,
    "plans: watch | status": "405: it is computed when it is read, and has no watch",
    "delete what is not there | status": READ_ONLY,
    "post to one | status": READ_ONLY,
    # Lists and versions.
    "page: a page and version 0 | shape": "from its watch cache kube-apiserver ignores a limit; it is kept here",
    "version: version 1, exact | status": VERSIONS,
    "plans: version 1, exact | status": VERSIONS,
    # Watches.
    "watch: watch from nonsense | status": "400: a 500 would be our fault, and it is the client's",
    "watch: watch from the future | status": "a CRD's watch waits in silence to its end; told at once here, as a list is",
    # Accept.
    "accept: protobuf | kind": NO_PROTOBUF,
    "accept for one: protobuf | kind": NO_PROTOBUF,
    "accept for one: metadata list | status": ONE,
    "plan: as metadata list | status": ONE,
    "what-if, answered as application/json;as=PartialObjectMetadataList* | status": ONE,
    "plan* as protobuf | kind": NO_PROTOBUF,
    "plan* as table* | shape": COLUMNS,
    "plans: as kubectl | shape": COLUMNS,
    "accept for a watch: metadata list | status": "a CRD's stream ends at the first event, which it cannot make; refused here before",
    # Credentials.
    "direct: refused: a token that is empty | status": "401: what was shown is judged, never passed over as by kube-apiserver",
    # Bodies of questions.
    "ask * | shape": ASKED,
    "ask of another kind | status": TYPE,
    "what-if of another kind | status": TYPE,
    "what-if w* | shape": ASKED,
    "what-if, answered as * | shape": ASKED,
    "ask of another version | warning": "refused for its type before its fields are looked at",
    "ask spec a word | status": "400 as built-in kinds, which cannot even decode it",
    "ask spec a list | status": "400 as built-in kinds, which cannot even decode it",
    "ask a count of a half | causes": "a CRD names it twice, once of no field",
    "ask a count of 1.0 | status": "422: an integer is written as one; built-in kinds refuse it as well",
    "ask a count of null | causes": "a CRD takes null out and then misses it",
    "ask a name of capitals | status": "a name of what is not stored is only repeated",
    "ask as protobuf | status": "a CRD's connection is cut; 415 says why",
    "ask, answered as application/json;as=* | shape": ASKED,
    "ask, answered as application/vnd.kubernetes.protobuf | kind": NO_PROTOBUF,
    "ask in none | status": "405 as built-in kinds; a CRD has no such path",
    "ask of one | status": "405: a CRD lets a create name its object twice",
}  # fmt: skip
