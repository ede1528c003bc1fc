package score

import "assay/encoders"

// Names that the tests of this package still use.
var similarities = encoders.SimilarityNames()
