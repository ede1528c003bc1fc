package data

// File is a picture of a table that is decoded on demand.
type File struct {
	Image
	Folder string // base of a relative path: Table.Folder
	Limits Limits
}

// Decode reads and decodes the picture.
func (f File) Decode() (*Picture, error) { return f.Image.Open(f.Folder, f.Limits) }
