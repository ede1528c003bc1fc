package grad

// WantsFused skips a test of fused operators if there is no compiler for them.
var WantsFused = wantsFused
