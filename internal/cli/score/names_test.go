package score

import "assay/encoders"

// What the tests of this package call by the name that it had here.
var similarities = encoders.SimilarityNames()
