package rpctest

import "testing"

// Run runs the suite.
func Run(t *testing.T, a Adapter) {
	for name, test := range map[string]func(*testing.T){
		"Codes":      a.codes,
		"Marks":      a.marks,
		"NotUTF8":    a.notUTF8,
		"Refusals":   a.refusals,
		"Later":      a.later,
		"KeyAge":     a.keyAge,
		"Limited":    a.limited,
		"StoreDown":  a.storeDown,
		"CutShort":   a.cutShort,
		"Concurrent": a.concurrent,
		"Context":    a.context,
		"Deadline":   a.deadline,
		"Metadata":   a.metadata,
		"KeyField":   a.keyField,
		"Exclusions": a.exclusions,
		"LetThrough": a.letThrough,
		"Recovered":  a.recovered,
		"Callbacks":  a.callbacks,
		"Table":      a.table,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
