//go:build race

package tieredstore_test

const raceDetector = true
