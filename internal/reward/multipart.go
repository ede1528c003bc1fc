package reward

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"unicode/utf8"
)

// readForm calls field for every part of a form, files and plain fields alike. Only edits may repeat: of other fields
// a second one would hide the first.
func readForm(m *multipart.Reader, field func(name string, value []byte) error) error {
	seen := map[string]bool{}
	for range maxListed {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return formError(err)
		}
		name := p.FormName()
		if seen[name] && name != "edits" {
			return apiErrorf(http.StatusBadRequest, "bad_request", "%s: a second field of this name", name)
		}
		seen[name] = true
		value, err := io.ReadAll(p)
		if err != nil {
			return formError(err)
		}
		if err := field(name, value); err != nil {
			return err
		}
	}
	return tooMany("more than %d form fields", maxListed)
}

// formError is the error of an unreadable form, unless the connection is to blame.
func formError(err error) error {
	if f := bodyError(err); toAPIError(f).Status != http.StatusBadRequest {
		return f
	}
	return apiErrorf(http.StatusBadRequest, "bad_request", "damaged form: %v", err)
}

// formText is a form's field as text.
func formText(name string, value []byte) (string, error) {
	if !utf8.Valid(value) {
		return "", apiErrorf(http.StatusBadRequest, "bad_request", "%s is not UTF-8", name)
	}
	return string(value), nil
}
