package cli

import "github.com/spf13/pflag"

// placeholders are the placeholders of text flags in the help, by the flag's name. A command overrides one by
// backquotes in the flag's usage. The default is TEXT.
var placeholders = func() map[string]string {
	of := map[string]string{"device": "DEVICE", "dimension": "NAME", "judge": "JUDGE", "model": "NAME", "url": "URL",
		"addr": "HOST:PORT", "key-variable": "NAME", "shard": "I/N", "split": "NAME", "by": "NAME"}
	for value, names := range map[string][]string{
		"DIR": {"scorer", "backbone", "adapter", "chat-backbone", "chat-adapter", "prompts", "store", "cache", "folder",
			"base", "photos", "candidates", "encoder", "clip", "dino"},
		"FILE": {"in", "config", "server", "clients", "cert", "key", "token-file", "test", "test-labels", "labels",
			"before", "after", "sizes", "inputs", "cotangents", "lin", "weights"},
		"PICTURE": {"source", "edit", "reference", "image"},
		"WORD":    {"dtype", "average", "method", "kind", "family", "fusion", "alpha", "scales", "preset", "pictures"},
	} {
		for _, name := range names {
			of[name] = value
		}
	}
	return of
}()

// placeholder is the placeholder of a text flag.
func placeholder(f *pflag.Flag) string {
	if _, ok := f.Annotations[writes]; ok {
		return "FILE"
	}
	if _, ok := f.Annotations[makes]; ok || f.Name == "out" {
		return "DIR"
	}
	if word, ok := placeholders[f.Name]; ok {
		return word
	}
	return "TEXT"
}
