"""Rates of the whole cluster."""


async def test_the_cluster_has_one_rate(short):
    nodes = [f"n{number}" for number in range(20)]
    await short.start(nodes=nodes)
    for node in nodes:
        for name in "abc":
            short.add_pod(f"{node}-{name}", node=node)
    await short.minutes(2, nodes=nodes)
    await short.minutes(1, nodes=nodes)
    assert len(short.evicted) == 5
    await short.minutes(1, nodes=nodes)
    assert len(short.evicted) == 10
    await short.minutes(2, nodes=nodes)
    assert {name.partition("-")[0] for name in short.evicted} == set(nodes)


async def test_advice_has_the_rate_of_evictions_because_it_reads_as_much(short):
    nodes = [f"n{number}" for number in range(20)]
    await short.start({"enable": True}, nodes=nodes)
    for node in nodes:
        short.add_pod(f"{node}-a", node=node)
        short.add_pod(f"{node}-b", node=node)
        short.add_pod(f"{node}-c", node=node)
    await short.minutes(3, nodes=nodes)
    assert short.advices() == 5
    await short.minutes(3, nodes=nodes)
    assert short.advices() == 20
    assert {each["involvedObject"]["name"] for each in short.server.all("events")} >= set(nodes)
