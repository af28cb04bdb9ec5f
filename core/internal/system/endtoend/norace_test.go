//go:build !race

package endtoend

var buildFlags []string
