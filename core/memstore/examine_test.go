package memstore_test

import (
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

func TestExamineComparesWithBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options         []memstore.Option
		records, memory storage.Grade
	}{
		"space":        {nil, storage.Good, storage.Good},
		"many records": {[]memstore.Option{memstore.MaxRecords(100)}, storage.Look, storage.Good},
		"full":         {[]memstore.Option{memstore.MaxRecords(90)}, storage.Mend, storage.Good},
		"many bytes":   {[]memstore.Option{memstore.MaxBytes(35_000)}, storage.Good, storage.Look},
		"a full cache": {[]memstore.Option{memstore.MaxRecords(90), memstore.Cache()}, storage.Good, storage.Good},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New(test.options...)
			for n := range 90 {
				win(t, store, claim(n))
			}
			findings := map[string]storage.Finding{}
			for _, f := range store.Examine(t.Context()) {
				findings[f.Check] = f
			}
			if findings["records"].Grade != test.records || findings["memory"].Grade != test.memory {
				t.Errorf("the findings are %+v, want records %s and memory %s", findings, test.records, test.memory)
			}
			if canary := findings["canary"].Grade; (canary == storage.Good) != (test.records == storage.Good || test.records == storage.Look) && name != "a full cache" {
				t.Errorf("the canary is %s", canary)
			}
		})
	}
}
