// Package consumers builds programs as users do, in a folder outside of the checkout and with a go.mod of their own, and
// counts the modules that each of them gets. It also installs a rehearsed release, and runs the README's program.
package consumers
