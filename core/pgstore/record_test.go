package pgstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// Stored rows outlive a deployment: this format changes only together with the
// version.
func TestHeaderFormat(t *testing.T) {
	t.Parallel()
	const want = `[["set","Content-Type","a/b"],["add","Vary","\"x\""],["delete","Server",""],["set","WC1SYXc=","/w==","base64"],` +
		`["set","WC1OdWw=","AA==","base64"],["set","WC3DnA==","","base64"]]`
	got := records.HeaderJSON(storage.Header{
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
		got, err := decodeHeader(records.HeaderJSON(header))
		if err != nil || !slices.Equal(got, header) {
			t.Errorf("it is %+v with error %v\nwant %+v", got, err, header)
		}
	})
}

// Four lines of printable characters, whatever the texts: a database may have any
// encoding, and an operator reads the column.
func FuzzOrigin(f *testing.F) {
	f.Add("POST /payments/{id}", "pod-7", "0123456789abcdef", "4bf92f-00f067")
	f.Add("", "", "", "ü")
	f.Add("\\", "\n", "\"\x00", "\xff\u2028")
	f.Fuzz(func(t *testing.T, route, holder, keyHash, trace string) {
		want := storage.Origin{Route: route, Holder: holder, KeyHash: keyHash, Trace: trace}
		encoded := origin(want)
		if encoded.Valid == (want == storage.Origin{}) || encoded.Valid && strings.Count(encoded.String, "\n") != 3 {
			t.Errorf("it is %+v, want four lines, or null for no origin", encoded)
		}
		if !records.IsPrintable(strings.ReplaceAll(encoded.String, "\n", "")) {
			t.Errorf("it is %q, want printable ASCII", encoded.String)
		}
		if got, readable := records.ParseOrigin(encoded.String); !readable || got != want {
			t.Errorf("it is %+v, readable %t\nwant %+v", got, readable, want)
		}
	})
}
