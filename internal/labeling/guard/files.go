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

// What the guard looks for in folders, by the ends of names.
var (
	// Picture files, also of formats that are not read: that is said of each of them.
	pictureFile = names(".png .jpg .jpeg .jfif .webp .gif .bmp .tif .tiff .avif .heic .heif .jp2 .jxl")
	// Tables that may hold pictures.
	tableFile = names(".parquet .jsonl .ndjson .json .csv .tsv")
	// Files in which no pictures lie.
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
	errClosed = errors.New("pictures inside it are not looked for: unpack it, or convert it to Parquet")
	errLink   = errors.New("a link to a folder is not followed: name that folder in guard.folders")
	errNone   = errors.New("no picture is found in it")
)

// guardFiles are the picture files and tables in a folder. What may hold pictures and is not looked into is passed to
// bad.
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

// isPicture reports whether a file begins like a picture, whatever its name.
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
