package text

// EndOfSequence is the tokenizer's eos_token, which closes a turn in the instruction-tuned checkpoints; "" if it has
// none.
func (p *Processor) EndOfSequence() string { return p.variables["eos_token"] }
