package records_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

func TestHeaderIsReadAsWritten(t *testing.T) {
	t.Parallel()
	header := storage.Header{
		{Op: storage.Set, Name: "Link", Value: "<a>"},
		{Op: storage.Set, Name: "Link", Value: "<b>"},
		{Op: storage.Add, Name: "Vary", Value: ""},
		{Op: storage.Delete, Name: "Server"},
		{Op: storage.Set, Name: "X-Raw", Value: "\xff\x00"},
		{Op: storage.Sealed, Name: "format", Value: "1"},
	}
	words := records.HeaderWords(header, utf8.ValidString)
	if len(words[0]) != 3 || len(words[4]) != 4 {
		t.Errorf("written as %q", words)
	}
	got, err := records.HeaderOfWords(words)
	if err != nil || !reflect.DeepEqual(got, header) {
		t.Errorf("got %v, %v", got, err)
	}
	if none, err := records.HeaderOfWords(nil); none != nil || err != nil {
		t.Errorf("no fields are %v, %v", none, err)
	}
}

// Case 20.
func TestFieldsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		nil,
		{"set", "A"},
		{"put", "A", "b"},
		{"set", "A", "b", "rot13"},
		{"set", "A", "b", "base64"},
		{"set", "QQ==", "Yg==", "base64", "more"},
	} {
		_, err := records.HeaderOfWords([][]string{{"set", "Good", "one"}, words})
		if err == nil || !strings.HasPrefix(err.Error(), "header field 1 is ") {
			t.Errorf("%q: %v", words, err)
		}
	}
}
