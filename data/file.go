package data

// File is a picture of a table that is decoded when it is wanted.
type File struct {
	Image
	Folder string // that a relative path starts at: Table.Folder
	Limits Limits
}

// Decode reads and decodes the picture.
func (f File) Decode() (*Picture, error) { return f.Image.Open(f.Folder, f.Limits) }
