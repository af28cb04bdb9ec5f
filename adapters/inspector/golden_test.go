package inspector

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// The command of another version, and scripts, read the page's JSON: each member of a released version stays, and keeps its
// kind of value.
func TestGoldenMembers(t *testing.T) {
	t.Parallel()
	var today []string
	for _, document := range []any{Tail{}, Explanation{}, Records{}, Process{}, Routes{}, Doctor{}, Record{}, Fault{}} {
		kind := reflect.TypeOf(document)
		today = append(today, members(kind.Name(), kind)...)
	}
	golden.Names(t, "members.jsonl", today)
}

// members returns the paths of the values in a document's JSON, each with its kind.
func members(path string, kind reflect.Type) (all []string) {
	switch {
	case kind.Kind() == reflect.Pointer:
		return members(path, kind.Elem())
	case kind.Kind() == reflect.Slice:
		return members(path+"[]", kind.Elem())
	case kind.Kind() != reflect.Struct || kind == reflect.TypeFor[time.Time]():
		return []string{path + " " + kind.Kind().String()}
	}
	for field := range kind.Fields() {
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			all = append(all, members(path, field.Type)...)
		case name == "":
			all = append(all, members(path+"."+field.Name, field.Type)...)
		default:
			all = append(all, members(path+"."+name, field.Type)...)
		}
	}
	return all
}
