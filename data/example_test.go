package data_test

import (
	"bytes"
	"fmt"
	"log"

	"assay/data"
)

// Two pictures joined as in ADIEE: each resized to 512 x 512, side by side.
func ExamplePicture_Resize() {
	photo, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	square := photo.Resize(512, 512, data.Bicubic)
	both := data.SideBySide(square, square.FlipHorizontal())
	fmt.Println(both.Width, both.Height)
	// Output: 1024 512
}

// A table of any format, with other column names, is copied with a score added.
func ExampleTable_NewWriter() {
	table, err := data.OpenTable("testdata/tables/nested.parquet", data.WithRequired())
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	var out bytes.Buffer
	w, err := table.NewWriter(&out, data.FormatJSONL, data.Column{Name: "score", Kind: data.KindNumber})
	if err != nil {
		log.Fatal(err)
	}
	for record, err := range table.Records() {
		if err != nil {
			log.Fatal(err)
		}
		record.Set("score", 7.5)
		if err := w.Write(record); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	line, _ := out.ReadString('\n')
	fmt.Print(line)
	// Output:
	// {"a":1,"list":[1,2,3],"lists":[["x"],[],null,["y",null]],"struct":{"u":1.5,"v":[{"w":true}]},"last":"q","score":7.5}
}
