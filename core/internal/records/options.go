package records

import "fmt"

// Configure applies the options of a store's New to the store. It panics for a nil one, as
// options do for values that they refuse.
func Configure[S any, O ~func(S)](name string, store S, options []O) {
	for i, option := range options {
		if option == nil {
			panic(fmt.Sprintf("%s: option %d is nil: leave it out", name, i+1))
		}
		option(store)
	}
}
