package records_test

import (
	"reflect"
	"strings"
	"testing"

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
	text := string(records.HeaderJSON(header))
	if !strings.Contains(text, `["add","Vary",""]`) || !strings.Contains(text, `["set","WC1SYXc=","/wA=","base64"]`) || !records.IsPrintable(text) {
		t.Errorf("written as %q", text)
	}
	got, err := records.ParseHeader(text)
	if err != nil || !reflect.DeepEqual(got, header) {
		t.Errorf("got %v, %v", got, err)
	}
	if none, err := records.ParseHeader("[]"); none != nil || err != nil || records.HeaderJSON(nil) != nil {
		t.Errorf("no fields are %v, %v", none, err)
	}
}

// Case 20.
func TestFieldsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		`[]`, `["set","A"]`, `["put","A","b"]`, `["set","A","b","rot13"]`, `["set","A","b","base64"]`, `["set","QQ==","Yg==","base64","more"]`,
	} {
		_, err := records.ParseHeader(`[["set","Good","one"],` + words + `]`)
		if err == nil || !strings.HasPrefix(err.Error(), "header field 1 is ") {
			t.Errorf("%q: %v", words, err)
		}
	}
}
