package policy

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// A policy's field without a row would be left out of Parse, String and Validate.
func TestEveryFieldHasARow(t *testing.T) {
	t.Parallel()
	var fields, rows []string
	for field := range reflect.TypeFor[Policy]().Fields() {
		fields = append(fields, field.Name)
	}
	for i := range settings {
		rows = append(rows, settings[i].fieldName())
	}
	testkit.EqualSlices(t, rows, fields, "the rows")
}

// Each setting takes values of one type, and sets its own field. Its text is parsed to the
// same policy again.
func TestEverySettingIsReadAndWritten(t *testing.T) {
	t.Parallel()
	standard, _ := New()
	for i := range settings {
		name, types, set := settings[i].name, make(map[string]bool), make(map[string]bool)
		for _, value := range []any{nil, true, false, int64(7), 1.5, "90m", "FailOpen", "Refuse", "UUID", []string{"503"}} {
			opt, err := Named(name, value)
			if err != nil {
				if fault, isField := errors.AsType[*FieldError](err); !isField || fault.Field != name || opt != nil {
					t.Errorf("%s = %#v: %v, want a FieldError", name, value, err)
				}
				continue
			}
			types[fmt.Sprintf("%T", value)] = true
			p, err := New(opt)
			if err != nil {
				t.Errorf("%s = %#v: %v", name, value, err)
			}
			for field := range reflect.TypeFor[Policy]().Fields() {
				if !reflect.DeepEqual(valueOf(p, field.Name), valueOf(standard, field.Name)) {
					set[field.Name] = true
				}
			}
			if again, err := Parse(p.String()); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%s = %#v: %q is parsed to %+v, %v", name, value, p.String(), again, err)
			}
		}
		if settings[i].kind == code {
			set[settings[i].fieldName()], types[code] = true, true // neither without Go
		}
		if len(types) != 1 || len(set) != 1 || !set[settings[i].fieldName()] {
			t.Errorf("%s takes %v and sets %v", name, types, set)
		}
	}
}

func valueOf(p Policy, field string) any { return reflect.ValueOf(p).FieldByName(field).Interface() }

// The table of the documentation has the settings in their order, each with the form of its
// value and its default.
func TestDocumentedSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/policy.md")
	testkit.Must(t, err)
	_, table, _ := strings.Cut(string(page), "| option | value | default | meaning |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, want []string
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.SplitN(strings.ReplaceAll(line, "`", ""), " | ", 4)
		documented = append(documented, strings.Join(cells[:min(3, len(cells))], " | "))
	}
	standard, err := New()
	testkit.Must(t, err)
	for i := range settings {
		_, value, _ := strings.Cut(settings[i].write(&standard), "=")
		if value == "" {
			value = "none"
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s", settings[i].name, settings[i].want, value))
	}
	if !slices.Equal(documented, want) {
		t.Errorf("docs/policy.md has\n%s\nwant\n%s", strings.Join(documented, "\n"), strings.Join(want, "\n"))
	}
}
