//go:build race

package endtoend

// buildFlags make the program what the tests are.
var buildFlags = []string{"-race"}
