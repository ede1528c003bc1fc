package reward

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
)

// mostParts bounds the parts of a form: each costs more than its bytes.
const mostParts = 10000

// parts reads a form. Files and plain fields are alike.
func parts(raw []byte, boundary string, field func(name string, value []byte) error) error {
	if boundary == "" {
		return problem(http.StatusBadRequest, "bad_request", "multipart/form-data without a boundary")
	}
	m := multipart.NewReader(bytes.NewReader(raw), boundary)
	for range mostParts {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return problem(http.StatusBadRequest, "bad_request", "damaged form: %v", err)
		}
		value, err := io.ReadAll(p)
		if err != nil {
			return problem(http.StatusBadRequest, "bad_request", "damaged form: %v", err)
		}
		if err := field(p.FormName(), value); err != nil {
			return err
		}
	}
	return problem(http.StatusRequestEntityTooLarge, "too_many", "more than %d form fields", mostParts)
}
