"""Lane: how many requests are answered at once, in all and for one user; who comes too many is sent away."""

from collections import Counter


class Lane:
    """Places for requests of one sort. One user never has them all, so that others find room."""

    def __init__(self, most: int, *, share: float = 0.5) -> None:
        """`share` is the part of the places that one user may have; at least one place."""
        self._most = most
        self._of_one = max(1, int(most * share))
        self._taken = 0
        self._by_user: Counter[str] = Counter()

    def enter(self, user: str) -> bool:
        """Take a place; False when there is none for that user. Every place taken is left again."""
        if self._taken >= self._most or self._by_user[user] >= self._of_one:
            if not self._by_user[user]:
                del self._by_user[user]
            return False
        self._taken += 1
        self._by_user[user] += 1
        return True

    def leave(self, user: str) -> None:
        """Give a place back."""
        self._taken -= 1
        self._by_user[user] -= 1
        if not self._by_user[user]:
            del self._by_user[user]
