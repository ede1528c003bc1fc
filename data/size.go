package data

import "fmt"

// Size reads a picture's width and height from its header, as stored (before any EXIF rotation), and checks them
// against the limits. Nothing is decoded.
func Size(raw []byte, l Limits) (width, height int, err error) {
	f, err := detectFormat(raw)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged %s: %v", f.name, r)
		}
	}()
	c, err := f.config(raw)
	if err != nil {
		return 0, 0, damaged(f, err)
	}
	if c.Width < 1 || c.Height < 1 {
		return 0, 0, fmt.Errorf("damaged %s: %d x %d pixels", f.name, c.Width, c.Height)
	}
	if int64(c.Width) > l.pixels()/int64(c.Height) {
		return 0, 0, fmt.Errorf("%w: %d x %d pixels, at most %d are allowed", ErrLimit, c.Width, c.Height, l.pixels())
	}
	return c.Width, c.Height, nil
}
