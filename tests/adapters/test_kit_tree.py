"""The tree of entries, compared with a second, naive implementation."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._kit.tree import NOTHING, EntryTree

Node = tuple[str | None, str | None, int, bool]

NODES = st.lists(
    st.tuples(
        st.none() | st.sampled_from("abcdefgh"),
        st.none() | st.sampled_from("abcdefgh"),
        st.integers(min_value=0, max_value=4),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def plant(nodes: list[Node]) -> EntryTree:
    tree = EntryTree()
    for entry_id, parent_id, at_ms, is_root in nodes:
        tree.add(entry_id, parent_id, at_ms=at_ms, is_root=is_root)
    return tree


def slow_parent(nodes: list[Node], position: int) -> int:
    _, parent_id, _, is_root = nodes[position]
    if is_root:
        return NOTHING
    ids = [node[0] for node in nodes]
    if parent_id in ids and parent_id is not None and ids.index(parent_id) != position:
        return ids.index(parent_id)
    return position - 1


@given(NODES)
def test_parents_are_found_wherever_they_stand(nodes: list[Node]) -> None:
    tree = plant(nodes)
    for position in range(len(nodes)):
        assert tree.parent(position) == slow_parent(nodes, position)


@given(NODES)
def test_a_branch_ends_at_its_leaf_and_holds_no_entry_twice(nodes: list[Node]) -> None:
    tree = plant(nodes)
    for leaf in range(len(nodes)):
        branch = tree.branch(leaf)
        assert branch[-1] == leaf
        assert len(branch) == len(set(branch))
        for one, other in pairwise(branch):
            assert tree.parent(other) == one


@given(NODES)
def test_the_newest_leaf_lies_on_a_branch_with_the_highest_time(nodes: list[Node]) -> None:
    tree = plant(nodes)
    newest = max(range(len(nodes)), key=lambda position: (nodes[position][2], position))
    assert newest in tree.branch(tree.newest_leaf())


@given(NODES)
def test_leaves_are_the_entries_without_children(nodes: list[Node]) -> None:
    tree = plant(nodes)
    parents = {slow_parent(nodes, position) for position in range(len(nodes))}
    assert tree.leaves() == [p for p in range(len(nodes)) if p not in parents]


def test_an_empty_tree_has_no_leaf_and_no_branch() -> None:
    tree = EntryTree()
    assert tree.newest_leaf() == NOTHING
    assert tree.branch(NOTHING) == []
    assert tree.leaves() == []
