from auditor.contract import Audit
from auditor.report.tree import module_tree


def stacked(audit: Audit, names: list[str]) -> Audit:
    layer = audit.layers[0]
    layers = tuple(layer.model_copy(update={"module": name}) for name in names)
    return audit.model_copy(update={"layers": layers, "findings": ()})


def test_blocks_that_repeat_are_folded(audit: Audit) -> None:
    names = [f"blocks.{i}.{part}" for i in range(12) for part in ("attention", "mlp")]
    [blocks] = module_tree(stacked(audit, names))
    [folded] = blocks.children
    assert (folded.name, folded.alike) == ("0 … 11", 12)
    assert [c.name for c in folded.children] == ["attention", "mlp"]
    assert blocks.precisions == ((audit.layers[0].precision, 24),)


def test_a_block_that_differs_stands_alone(audit: Audit) -> None:
    deep = stacked(audit, [f"blocks.{i}" for i in range(4)])
    other = "fp32" if deep.layers[0].precision != "fp32" else "fp16"
    layers = list(deep.layers)
    layers[2] = layers[2].model_copy(update={"precision": other})
    [blocks] = module_tree(deep.model_copy(update={"layers": tuple(layers)}))
    assert [(c.name, c.alike) for c in blocks.children] == [("0 … 1", 2), ("2", 1), ("3", 1)]


def test_a_tree_too_large_is_cut(audit: Audit) -> None:
    names = [f"part{i}.inner{j}" for i in range(100) for j in range(50)]
    nodes = module_tree(stacked(audit, names))
    assert len(nodes) == 100 and all(not node.children for node in nodes)
