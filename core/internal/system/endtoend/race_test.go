//go:build race

package endtoend

// buildFlags build the program like the tests.
var buildFlags = []string{"-race"}
