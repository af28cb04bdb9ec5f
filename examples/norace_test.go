//go:build !race

package examples_test

var raceFlag []string
