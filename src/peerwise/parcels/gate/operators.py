"""The operators that models of sklearn, xgboost, lightgbm and torch are made of; nothing else runs here.

Not on the list: whatever holds a sub-graph, draws random numbers, or makes an output whose size depends on values
(Loop, Scan, If, Random*, NonZero, Unique); quantised and image-resizing operators; lists and dictionaries (ZipMap); and
operators that keep training rows (SVMClassifier). Expand and ConstantOfShape are, as nets of sequences need them: how
much they make is told and bounded before anything runs.
"""

from __future__ import annotations

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
IR_VERSIONS = (4, 14)
OPSETS = {"": (7, 26), "ai.onnx.ml": (1, 5)}

_PLAIN = """
    Abs Add And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Constant ConstantOfShape Conv Cos
    Div Dropout Elu Equal Erf Exp Expand Flatten Floor GRU Gather Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max MaxPool Mean Min Mish
    Mod Mul Neg Not Or PRelu Pad Pow RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Selu Shape Sigmoid Sign Sin Slice
    Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Tanh ThresholdedRelu TopK Transpose Unsqueeze Where Xor
"""
_LEARNED = """
    ArrayFeatureExtractor Binarizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder
    Scaler TreeEnsembleClassifier TreeEnsembleRegressor
"""
OPERATORS = {"": frozenset(_PLAIN.split()), "ai.onnx.ml": frozenset(_LEARNED.split())}
TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
