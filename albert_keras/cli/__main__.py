from albert_keras.cli import main

main()
