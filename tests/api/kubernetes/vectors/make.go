// Writes, for each .json file of this folder, the protobuf body that Kubernetes' own encoder makes of it.
// `make` beside this file runs it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	known := scheme.Scheme
	check(extensions.AddToScheme(known))
	decoder := serializer.NewCodecFactory(known).UniversalDeserializer()
	encoder := protobuf.NewSerializer(known, known)
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "*.json"))
	check(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		object, _, err := decoder.Decode(text, nil, nil)
		check(err)
		var body bytes.Buffer
		check(encoder.Encode(object.(runtime.Object), &body))
		check(os.WriteFile(strings.TrimSuffix(path, ".json")+".pb", body.Bytes(), 0o644))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
