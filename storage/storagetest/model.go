package storagetest

import "testing"

func checkModel(t *testing.T, open Open) {}
