package reward

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"unicode/utf8"
)

// readForm calls field for every part of a form, be it a file or a plain field.
func readForm(m *multipart.Reader, field func(name string, value []byte) error) error {
	for range maxListed {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return formError(err)
		}
		value, err := io.ReadAll(p)
		if err != nil {
			return formError(err)
		}
		if err := field(p.FormName(), value); err != nil {
			return err
		}
	}
	return apiErrorf(http.StatusRequestEntityTooLarge, "too_many", "more than %d form fields", maxListed)
}

// formError says that a form cannot be read, unless the connection is to blame.
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
