import threading

from threadpoolctl import threadpool_info

from superarm.arrays.pools import one_blas_thread


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_until_the_last_has_left():
    before = threads()
    entered = threading.Event()
    leave = threading.Event()

    def stay():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    with one_blas_thread():
        other.start()
        entered.wait(10)
        assert set(threads()) == {1}
    assert set(threads()) == {1}  # the other is still inside
    leave.set()
    other.join()
    assert threads() == before


def test_what_raises_leaves_too():
    before = threads()
    try:
        with one_blas_thread():
            raise ValueError("no")
    except ValueError:
        pass
    assert threads() == before
