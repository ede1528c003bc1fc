package reward

import (
	"assay/data"
	"assay/internal/workers"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// encodedPicture is an encoded picture. In JSON it is base64, with or without the prefix of a data URL. Damaged base64
// is the error of one item, not of the request.
type encodedPicture struct {
	raw []byte
	err error
}

// UnmarshalJSONFrom decodes base64 from the stream, so that only one picture at a time is held as text.
func (b *encodedPicture) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		b.err = badPicture("a picture is a base64 string")
		return nil
	}
	text := []byte(value[1 : len(value)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		if head, rest, ok := bytes.Cut(text, []byte(",")); ok && bytes.HasSuffix(head, []byte(";base64")) {
			text = rest
		}
	}
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		b.err = badPicture("a picture is base64, not a URL or a path: %v", err)
		return nil
	}
	b.raw = raw[:n]
	return nil
}

// decoder decodes pictures, as many at a time as there are cores, and measures how long that takes.
type decoder struct {
	limits data.Limits
	free   chan struct{} // one entry for each picture that is being decoded
	time   *estimator    // of decoding and preparing
}

// size returns the number of pixels according to the picture's header, without decoding it.
func (d *decoder) size(b *encodedPicture) (pixels int64, err error) {
	if b.err != nil {
		return 0, b.err
	}
	width, height, err := data.Size(b.raw, d.limits)
	if err != nil && !errors.Is(err, data.ErrLimit) {
		err = badPicture("%v", err)
	}
	return int64(width) * int64(height), err
}

// check validates source and instruction without decoding, and returns the source's pixels.
func (d *decoder) check(source *encodedPicture, instruction string) (pixels int64, err error) {
	if err := checkInstruction(instruction); err != nil {
		return 0, err
	}
	if source == nil {
		return 0, badRequest("source is missing: a picture")
	}
	if pixels, err = d.size(source); err != nil {
		return 0, prefixError("source", err)
	}
	return pixels, nil
}

// maxInstruction bounds instructions, in bytes.
const maxInstruction = 8 << 10

func checkInstruction(text string) error {
	if strings.TrimSpace(text) == "" {
		return badRequest("instruction is missing: what the edit was to do")
	}
	if len(text) > maxInstruction {
		return badRequest("instruction: %d bytes, at most %d are taken", len(text), maxInstruction)
	}
	return nil
}

// decode decodes a picture whose size was checked.
func (d *decoder) decode(ctx context.Context, b *encodedPicture) (*data.Picture, error) {
	p, err := data.DecodeContext(ctx, b.raw, d.limits)
	if err != nil && ctx.Err() == nil {
		err = badPicture("%v", err)
	}
	return p, err
}

// one decodes a picture as soon as a decoder is free.
func (d *decoder) one(
	ctx context.Context, r *reservation, b *encodedPicture, pixels int64,
) (p *data.Picture, err error) {
	err = d.timed(ctx, r, pixels, func() (err error) {
		p, err = d.decode(ctx, b)
		return err
	})
	return p, err
}

// each decodes several edits of a source at a time and calls use with each of their items. It keeps no picture. Errors
// are set on the items.
func (d *decoder) each(ctx context.Context, r *reservation, source *data.Picture, edits []*edited,
	use func(it *item, output *data.Picture) error) {
	workers.Each(len(edits), cap(d.free), func(i int) error {
		e := edits[i]
		err := d.timed(ctx, r, e.pixels, func() (err error) {
			output := source
			if !e.source {
				if output, err = d.decode(ctx, e.items[0].output); err != nil {
					return err
				}
			}
			for _, it := range e.items {
				it.err = asBadEdit(use(it, output))
			}
			return nil
		})
		if err != nil {
			e.fail(err)
		}
		return nil
	})
}

// asBadEdit attributes an error to the edit, unless it is the server's.
func asBadEdit(err error) error {
	var f *apiError
	if err == nil || errors.As(err, &f) {
		return err
	}
	return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
}

// timed runs f as soon as a decoder is free and measures its time. A panic is an error of this picture.
func (d *decoder) timed(ctx context.Context, r *reservation, pixels int64, f func() error) error {
	defer r.decoded(d.time, pixels)
	select {
	case d.free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := time.Now()
	err := attempt(f)
	<-d.free
	if err == nil {
		d.time.observeFastest(kilopixels(pixels), time.Since(begin)/time.Duration(cap(d.free)))
	}
	return err
}
