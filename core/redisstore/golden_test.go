package redisstore

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// goldenValue is a value in Redis, and its content.
type goldenValue struct {
	Name                         string
	Value                        []byte
	Record                       storage.Record
	Token                        storage.Token
	TookOver, Forgotten, Apart   bool
	Lease, Retain, Remember, Age time.Duration
	Written                      time.Time
}

func readGolden(t *testing.T, name string, value []byte) goldenValue {
	t.Helper()
	s, err := decode(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return goldenValue{
		Name: name, Value: value, Record: s.record, Token: s.token, TookOver: s.tookOver, Forgotten: s.forgotten, Apart: s.apart,
		Lease: s.lease, Retain: s.retain, Remember: s.remember, Age: s.age, Written: s.written.UTC(),
	}
}

// Values that released versions have written keep their meaning.
func TestGoldenValues(t *testing.T) {
	t.Parallel()
	golden.Each(t, "values.jsonl", func(t *testing.T) (all []goldenValue) {
		t.Helper()
		values := usualValues()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			all = append(all, readGolden(t, name, values[name]))
		}
		return all
	}, func(t *testing.T, released goldenValue) {
		t.Helper()
		golden.Want(t, readGolden(t, released.Name, released.Value), released)
	})
}
