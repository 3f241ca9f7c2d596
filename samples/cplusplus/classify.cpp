// SPDX-License-Identifier: Apache-2.0
// Classifies a picture with the network of samples/digits, from C++: opens the artifact, runs it, prints the label.
//
//   classify digits.so digit-3.pgm
//
// Build: c++ -std=c++17 classify.cpp $(pkg-config --cflags --libs tccrt)
#include <tccrt.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>

// The pixels of a PGM file (binary, without comments), from 0 to 1.
static std::vector<float> read_picture(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int width = 0, height = 0, most = 0;
    file >> magic >> width >> height >> most;
    file.get();
    if (magic != "P5" || width != 28 || height != 28 || most < 1 || most > 255)
        throw std::runtime_error(std::string(path) + ": expected a PGM picture of 28 x 28");
    std::vector<float> pixels(28 * 28);
    for (float &p : pixels)
        p = static_cast<float>(file.get()) / static_cast<float>(most);
    return pixels;
}

int main(int argc, char **argv)
try {
    if (argc != 3)
        throw std::runtime_error("usage: classify digits.so PICTURE.pgm");
    tccrt::model model(argv[1]);
    tccrt::session session(model);
    std::vector<float> pixels = read_picture(argv[2]);
    std::vector<tccrt::tensor> out = session.run({tccrt::tensor::of(pixels, {1, 1, 28, 28})});
    const float *scores = out[0].data<float>();
    std::cout << "label: " << std::max_element(scores, scores + out[0].size()) - scores << '\n';
    return 0;
} catch (const tccrt::error &e) {
    std::cerr << "error: " << e.what() << '\n';
    return e.code();
} catch (const std::exception &e) {
    std::cerr << "error: " << e.what() << '\n';
    return 1;
}
