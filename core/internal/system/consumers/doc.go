// Package consumers builds programs as users do, in a folder outside of the checkout and with a go.mod of their own, and
// counts the modules that each of them gets.
package consumers
