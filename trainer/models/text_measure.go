package models

// TextMeasure adds up what a model makes of the tokens of answers.
type TextMeasure struct {
	Loss   float64 // sum of -log softmax
	Tokens int
	Right  int // those that were the likeliest
}
