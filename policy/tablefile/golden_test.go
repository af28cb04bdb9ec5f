package tablefile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit/golden"
	"github.com/oncekey/oncekey/policy"
	"github.com/oncekey/oncekey/policy/tablefile"
)

// goldenTable is a file, and its policies as text.
type goldenTable struct{ Name, File, Policies string }

func readTable(t *testing.T, name, file string) goldenTable {
	t.Helper()
	table, err := tablefile.Parse(name, []byte(file))
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, file)
	}
	policies := ""
	for _, row := range table.Declarations() {
		policies += row.Route() + ": " + row.Policy.String() + "\n"
	}
	return goldenTable{name, file, policies}
}

// options returns each option that a file can set, with values.
func options() (all []string) {
	_, err := policy.Parse("Nothing=1")
	_, names, _ := strings.Cut(fmt.Sprint(err), "the names are ")
	for name := range strings.SplitSeq(names, ", ") {
		for _, value := range []string{"true", "false", "7", "90m", "FailOpen", "Refuse", "UUID", "[503, 4xx]", "[amount, client_secret]", "[POST, PUT]"} {
			option := fmt.Sprintf("%s: %s", name, value)
			if _, err := tablefile.Parse("t.yaml", fmt.Appendf(nil, "routes:\n  POST /a: {%s}\n", option)); err == nil {
				all = append(all, option)
			}
		}
	}
	return all
}

// Table files of released versions keep their meaning.
func TestGoldenTables(t *testing.T) {
	t.Parallel()
	golden.Each(t, "tables.jsonl", func(t *testing.T) (all []goldenTable) {
		t.Helper()
		file := "defaults: {TTLHours: 48}\nroutes:\n"
		for i, option := range options() {
			file += fmt.Sprintf("  POST /%d: {%s}\n", i, option)
		}
		return []goldenTable{
			readTable(t, "options.yaml", file), readTable(t, "good.yaml", good),
			readTable(t, "idempotency.json", `{"defaults":{"TTLHours":48},"routes":{"POST /payments":{"LockTTL":"60s","ExcludeFields":["a"],"Required":false}}}`),
		}
	}, func(t *testing.T, released goldenTable) {
		t.Helper()
		golden.Want(t, readTable(t, released.Name, released.File), released)
	})
}
