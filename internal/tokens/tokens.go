// Package tokens wraps tokenizers of the Hugging Face tokenizers library so that goroutines can share them. Texts
// that the library's C interface would truncate or alter are refused.
package tokens

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daulet/tokenizers"
)

// Tokenizer is a tokenizer.json. Any number of goroutines may encode at the same time.
type Tokenizer struct {
	mu     sync.RWMutex // held for reading while encoding, so that Close waits
	handle *tokenizers.Tokenizer
}

// New creates a tokenizer from the content of a tokenizer.json. Close frees it.
func New(json []byte) (*Tokenizer, error) {
	h, err := tokenizers.FromBytes(json)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{handle: h}, nil
}

// Encode returns the ids of a text, with the post-processor's special tokens if special is true.
func (t *Tokenizer) Encode(text string, special bool) ([]uint32, error) {
	if err := Check("text", text); err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.handle == nil {
		return nil, errors.New("the tokenizer is closed")
	}
	ids := t.handle.EncodeWithOptions(text, special).IDs
	if ids == nil && text != "" {
		return nil, fmt.Errorf("the tokenizer cannot encode %.80q", text)
	}
	return ids, nil
}

// Library returns the library's own tokenizer, for functions that are not wrapped here.
func (t *Tokenizer) Library() *tokenizers.Tokenizer { return t.handle }

// Close frees the tokenizer. Calling it again does nothing.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle == nil {
		return nil
	}
	err := t.handle.Close()
	t.handle = nil
	return err
}

// Check rejects text that the library's C interface would silently truncate or alter. what names the text in the
// error.
func Check(what, text string) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %.80q is not valid UTF-8", what, text)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("%s %.80q contains a zero byte", what, text)
	}
	return nil
}
