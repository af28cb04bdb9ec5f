package pgstore

import (
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// Stored rows outlive a deployment: this format changes only together with the
// version.
func TestHeaderFormat(t *testing.T) {
	t.Parallel()
	const want = `[["set","Content-Type","a/b"],["add","Vary","\"x\""],["delete","Server",""],["set","WC1SYXc=","/w==","base64"],` +
		`["set","WC1OdWw=","AA==","base64"],["set","WC3DnA==","","base64"]]`
	got := encodeHeader(storage.Header{
		{Op: storage.Set, Name: "Content-Type", Value: "a/b"},
		{Op: storage.Add, Name: "Vary", Value: `"x"`},
		{Op: storage.Delete, Name: "Server"},
		{Op: storage.Set, Name: "X-Raw", Value: "\xff"},
		{Op: storage.Set, Name: "X-Nul", Value: "\x00"},
		{Op: storage.Set, Name: "X-Ü"},
	})
	if string(got) != want {
		t.Errorf("the header is %s\nwant %s", got, want)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(uint8(0), "Name", "value")
	f.Add(uint8(2), "\xff", "\x00\n\r\u2028\ufffd")
	f.Fuzz(func(t *testing.T, operation uint8, name, value string) {
		header := storage.Header{{Op: storage.FieldOp(operation % 3), Name: name, Value: value}, {Name: value, Value: name}}
		got, err := decodeHeader(encodeHeader(header))
		if err != nil || !slices.Equal(got, header) {
			t.Errorf("it is %+v with error %v\nwant %+v", got, err, header)
		}
	})
}
