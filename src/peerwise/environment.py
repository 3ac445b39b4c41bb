"""Environment variables under which libraries start no threads. They are read when a library is imported, so this
module imports none."""

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
ARROW_ALONE = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}  # pyarrow would start a thread when it is imported
