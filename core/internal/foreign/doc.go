// Package foreign guards programs as other projects' documentation writes them, and
// runs each through one table: see TestPrograms. It has only tests. The folders
// below it hold generated code, and package validation, which reads the documents of
// adapters/openapi by foreign libraries.
//
// A program is a row: a name, a function that mounts the guard and a handler, and its
// differences from the usual HTTP. To add a program, add a row.
package foreign

//go:generate sh generate.sh
