package reward

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"unicode/utf8"
)

// parts reads a form. Files and plain fields are alike.
func parts(m *multipart.Reader, field func(name string, value []byte) error) error {
	for range mostListed {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damagedForm(err)
		}
		value, err := io.ReadAll(p)
		if err != nil {
			return damagedForm(err)
		}
		if err := field(p.FormName(), value); err != nil {
			return err
		}
	}
	return problem(http.StatusRequestEntityTooLarge, "too_many", "more than %d form fields", mostListed)
}

// damagedForm says that a form cannot be read, unless the connection is to blame.
func damagedForm(err error) error {
	if f := unreadable(err); explain(f).Status != http.StatusBadRequest {
		return f
	}
	return problem(http.StatusBadRequest, "bad_request", "damaged form: %v", err)
}

// text is a form's field as text.
func text(name string, value []byte) (string, error) {
	if !utf8.Valid(value) {
		return "", problem(http.StatusBadRequest, "bad_request", "%s is not UTF-8", name)
	}
	return string(value), nil
}
