package grad

// WantsFused skips a test of fused operators where there is no compiler for them.
var WantsFused = wantsFused
