package guard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/data"
)

// What the guard looks for in folders, by file extension.
var (
	// Picture files, including unsupported formats, which are reported one by one.
	pictureFile = names(".png .jpg .jpeg .jfif .webp .gif .bmp .tif .tiff .avif .heic .heif .jp2 .jxl")
	// Tables that may hold pictures.
	tableFile = names(".parquet .jsonl .ndjson .json .csv .tsv")
	// Files without pictures.
	plainFile = names(".txt .md .rst .py .sh .yaml .yml .toml .cfg .ini .log .lock .gitattributes .gitignore .bib .cff")
)

func names(ends string) map[string]bool {
	set := map[string]bool{}
	for end := range strings.FieldsSeq(ends) {
		set[end] = true
	}
	return set
}

var (
	errClosed = errors.New("not searched for pictures: unpack it, or convert it to Parquet")
	errLink   = errors.New("a link to a folder is not followed: add that folder to guard.folders")
	errNone   = errors.New("no pictures found")
)

// guardFiles returns the picture files and tables in a folder. Files that may hold pictures but are not searched are
// passed to bad.
func guardFiles(folder string, bad func(name string, err error)) (paths []string, err error) {
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(folder, func(p string, e fs.DirEntry, err error) error {
		ext := strings.ToLower(filepath.Ext(p))
		switch {
		case err != nil || e.IsDir() || plainFile[ext]:
		case e.Type()&fs.ModeSymlink != 0 && isFolder(p):
			bad(p, errLink)
		case pictureFile[ext] || tableFile[ext] || isPicture(p):
			paths = append(paths, p)
		default:
			bad(p, errClosed)
		}
		return err
	})
	return paths, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isPicture reports whether a file starts like a picture, whatever its name.
func isPicture(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return false
	}
	_, _, err = data.Size(head, data.Limits{})
	return err == nil
}
